package feed

import (
	"testing"
	"time"
)

// TestAge: the age of timestamps that looks read up to comes down again, also where it takes a
// moment to find that there is nothing to wait for.
func TestAge(t *testing.T) {
	age := time.Duration(0)
	for range 20 {
		age = aged(age, 100*time.Millisecond)
	}
	if age != mostAge {
		t.Errorf("after long waits the age is %v, want %v", age, mostAge)
	}
	for range 60 {
		age = aged(age, 20*time.Microsecond)
	}
	if age > time.Millisecond {
		t.Errorf("after 60 looks without a wait the age is %v", age)
	}
}
