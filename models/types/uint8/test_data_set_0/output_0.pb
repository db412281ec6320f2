Bby_rowJ_
	%$#"! &.-,+*)('/0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_