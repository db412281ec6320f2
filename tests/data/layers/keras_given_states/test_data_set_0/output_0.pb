B
Identity:0J öks>L<½Ã}6>¢=V»Wb¾d½½…4Š¾xãÿ<