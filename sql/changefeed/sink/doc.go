// Package sink is where change feeds send their messages: Kafka, a webhook, or files in a directory
// or a bucket. It knows neither tables nor rows. What a statement may name is decided by the
// operator of the node ([Policy]), since it is the node that connects there.
//
// All kinds promise the same: a message is acknowledged when [Sink.Emit] returns without an error;
// messages of one key arrive in the order in which they were given; whatever failed may be given
// again, so that a message may arrive twice, and with it those of its key behind it.
//
// Texts that have passwords in them never leave this package: neither in errors nor in what
// [Address.String] shows.
package sink
