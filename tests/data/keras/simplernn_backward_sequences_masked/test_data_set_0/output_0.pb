B
Identity:0J DíY¿öTù>”1}¿’!Ý>àa…>Í¯
¿mÀ~¿¸@a?