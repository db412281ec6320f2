B	by_columnJ_M;)SA/YG5#_:(@.
F4"$%L'*+,-	0123!6789<=>?BCDE HIJK&NOPQRTUVWXZ[\]^