B
Identity:0Jë×¾üât¿