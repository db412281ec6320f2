BIdentity_1:0Jеж
>RН┌<