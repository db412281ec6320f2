B
Identity:0J@Ãk>ª¦½hâ¡>yc›¾1j>Ø3ƒ<