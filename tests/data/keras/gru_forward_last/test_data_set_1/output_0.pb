B
Identity:0J.N­>œõÌ>fdA¾± ç=“Ò¿¶ŽY?