B
Identity:0J(>a:ÆÝS=!¬½å~±=r°§=ü£®=