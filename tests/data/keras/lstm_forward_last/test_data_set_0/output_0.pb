B
Identity:0JÎUØ=WÎº