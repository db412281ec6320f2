B
Identity:0JžXº¾¸@û>