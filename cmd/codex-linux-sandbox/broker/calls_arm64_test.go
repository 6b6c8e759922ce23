package broker_test

// older are the calls that only another architecture has.
var older []call
