// Package cost says where the server's processor time of a statement goes (benchmark cost): for
// each kind of statement and number of clients a budget by stage, and beside it the floor that the
// machine sets.
//
// A node runs as a process of its own, and sysbench drives it. The total is the process's user and
// system time over the whole run, by statement. A CPU profile taken in the middle says how it
// divides: each sample is given to the stage of its deepest function that the table in stages.go
// knows. The samples are checked against the process's time in the same window, and only then
// scaled to the total: a budget whose samples miss more than a tenth of that time says so.
package cost
