// Package changefeed sends what changes in tables to the world outside: CREATE CHANGEFEED, SHOW
// CHANGEFEEDS, PAUSE JOB and RESUME JOB. What has changed it reads by package feed, how that is
// worded is package event's, and how it is sent package sink's.
//
// # A feed
//
// A feed is a job (package kv/job). It reads all rows as of one moment, unless the statement says
// otherwise, and then what every transaction has committed since, in the order of commits. The
// checkpoint is a moment up to which the sink has acknowledged everything. Whatever dies, the feed
// goes on from there: so every change arrives at least once, and what arrives for the first time
// arrives in order for each key. A mark says that all changes up to a moment have arrived; nothing
// new comes at or below it.
//
// # Definitions
//
// The reader tells of changes of definitions at their moment. Where the rows look different
// afterwards, they are sent again with that moment. Where a row got another key, or vanished with
// the table's old id, the old ones are sent as deleted first. A feed of a table that is gone fails.
//
// # A sink that is slow or dead
//
// Nothing is read while a batch waits for the sink, so that a feed keeps a batch, and what the
// reader has gathered. Sending is tried again after a while that doubles up to a minute, and begins
// anew with the first success. A hold (package hold) keeps the old versions from the checkpoint on,
// for as long as the option gc_protect_expires_after says. Then the feed fails, or stands still,
// and says so.
//
// # Whom to trust
//
// A statement has this node connect somewhere. Where to is the operator's choice (sink.Policy). The
// record of a running job has the address with its passwords; no statement and no log shows them.
package changefeed
