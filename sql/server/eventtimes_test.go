package server

import "testing"

// TestEventTimes: an event has no schedule whose steps cannot be counted in time.
func TestEventTimes(t *testing.T) {
	_, c := newServer(t)
	k := conn(t, c)
	for _, every := range []string{"0 DAY", "101 YEAR", "9000000000000000000 MONTH", "213503982334601 DAY", "4000000000 SECOND"} {
		expectErr(t, k, 1542, "CREATE EVENT e ON SCHEDULE EVERY "+every+" DO SELECT 1")
	}
	expectErr(t, k, 1525, "CREATE EVENT e ON SCHEDULE EVERY 1 SECOND STARTS '1000-01-01 00:00:00' DO SELECT 1")
	exec(t, k, "CREATE EVENT e ON SCHEDULE EVERY 100 YEAR STARTS '1970-01-02 00:00:00' DISABLE DO SELECT 1")
	expectErr(t, k, 1525, "ALTER EVENT e ON SCHEDULE EVERY 1 SECOND STARTS '1000-01-01 00:00:00'")
	exec(t, k, "SET time_zone = '+01:00'") // the engine takes the times of another zone as they are
	expectErr(t, k, 1525, "CREATE EVENT f ON SCHEDULE EVERY 1 SECOND STARTS '1000-01-01 00:00:00' DO SELECT 1")
}
