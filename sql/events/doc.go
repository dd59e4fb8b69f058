// Package events runs events, each time that one is due on one node of the cluster.
//
// An event is an object of the catalog. When it was executed last is a row of its own in the meta
// shard, so that executions change no definition. A node that finds an event due claims the
// execution: one transaction looks again whether it is due, notes that it was executed, ends the
// event if it was the last time, and makes a job. So an execution has one job, whatever dies.
//
// The node of the claim runs the body, under the lease of the job. If that node dies before the
// body has begun, another one runs it. If it dies later, nobody does: the statements of a body
// commit by themselves, and it is not known how far they came. The job then has failed.
//
// Nodes of the region in which the event was made go first, by a hash of its name. Each waits some
// seconds longer than the one before it, so that they do not all ask for every execution. What was
// due more than five minutes ago, because no node looked, is not made up for, but for events that
// run once.
package events
