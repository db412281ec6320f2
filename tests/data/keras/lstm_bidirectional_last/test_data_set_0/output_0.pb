B
Identity:0Jัxพัพห=…
พ]B(>