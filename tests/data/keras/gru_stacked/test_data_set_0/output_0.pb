B
Identity:0J ’¶½¬tû¾