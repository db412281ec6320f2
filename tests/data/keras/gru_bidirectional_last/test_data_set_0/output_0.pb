B
Identity:0J~à´>íÆ
?¼2J= ë?