B
Identity:0Jú†‹½FèB½