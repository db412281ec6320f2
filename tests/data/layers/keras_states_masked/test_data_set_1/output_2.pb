BIdentity_2:0J‹¿ã½½
? Q¼Fl†>J-V¾`é¶<