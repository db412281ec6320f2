B
Identity:0J7yъ╫ыл©