// Package zone knows the time zones of sessions: their names as MySQL has them, and the zone of the
// machine. Zones come with the program, where the machine has no files of them.
package zone
