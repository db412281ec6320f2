B
Identity:0J0Þ‘ã¾üwF¿¨±¾òs?;+?#’¿ÅKG?MBw¿ÝßW>×òF?F|>cc¿