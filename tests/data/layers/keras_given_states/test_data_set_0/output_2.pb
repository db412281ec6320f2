BIdentity_2:0J
ó¿Hw=