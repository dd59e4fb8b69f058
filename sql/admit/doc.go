// Package admit lets statements that compute for long take turns, so that a node with more of them
// than processors still answers others, and keeps its leases and heartbeats.
//
// The Go scheduler knows no priorities: whatever is woken waits behind all goroutines that
// compute, for up to 10 ms each. So no more statements compute at once than there are [Pool]
// slots. What takes less than a millisecond needs none: statements on single rows, and all of the
// node's own work.
//
// A statement calls [Turn.Yield] between its batches of rows. Once it has computed for a
// millisecond it needs a slot, and waits until it gets one; until then no more than [glance] counts
// of the time between two calls. It keeps the slot for [quantum], then it goes to the end of the
// queue if somebody waits. Who has computed least comes first, and statements that may hold locks
// come before those that cannot: whoever waits for their locks would wait for the queue, too.
//
// # The network
//
// The scheduler looks for what has come from the network only when it has nothing else to do, and
// every 10 ms. With a slot for each processor it always has something to do while statements wait.
// So [Pool.Crowded] is told of that: a node lets the scheduler use one thread more then, which has
// nothing to do but to wait for the network (package node/spare).
//
// That does not do where short statements come all the time: the collector's work takes the thread,
// and the operating system lets three threads wait for two processors. The delay of goroutines does
// not show it: it begins when the scheduler has seen what came. So one slot is closed while short
// statements come ([fewShort]), and who has a slot then gives its thread's processor away every
// [stand], too: to the threads that look for what came.
//
// Nor does that do while the collector marks: it takes all threads that have nothing else to do,
// and those of them that look at the network wait for a processor as well. A request was seen after
// 8 ms then, by the look of every 10. So while there is a crowd, whoever computes has the scheduler
// look every [lookEvery] ([Pool.Look]), if something has come: then it is looked at by a thread
// that has a processor, and what waited for it goes on there.
//
// # Logins
//
// [Logins] bound how many logins compute at once.
//
// # No deadlocks
//
// A slot is lent. Who does not renew it for [lease] has lost it: it waits for a row, a lock,
// another node or its client, and nobody waits for that in the queue. It queues again when it goes
// on. So the holder of a slot may wait for somebody who waits for a slot, and that one gets it all
// the same.
//
// # Bounds
//
// The queue holds [Pool.Most] statements. One more that has not had a slot yet is an error, and so
// is one that has not got its first within [Pool.Patience]. Statements that have begun always may
// queue: they are no more than connections.
package admit
