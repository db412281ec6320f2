B
Identity:0J«Ä >Iw¿