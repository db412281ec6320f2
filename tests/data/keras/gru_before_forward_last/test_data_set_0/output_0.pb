B
Identity:0J°tn>Wæ>