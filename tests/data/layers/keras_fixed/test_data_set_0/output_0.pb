B
Identity:0Jkหั=S|9<