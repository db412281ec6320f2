B
Identity:0J}?£å¿O0f<NIe¿ÔZ?¾*¿