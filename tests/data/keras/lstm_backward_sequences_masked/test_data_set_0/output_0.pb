B
Identity:0J CF¾8o@½SÎ½@ó°=°ó=¾h95>M²¯½›‰G>