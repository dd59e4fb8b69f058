package regionkey

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/godwitdb/godwit/base"
)

func TestUUIDsRise(t *testing.T) {
	var u Maker
	now := time.Now()
	last := ""
	for i := range 10_000 {
		if i == 5000 {
			now = now.Add(-time.Hour) // the clock is set back
		}
		id, err := u.next(base.RegionID(3), now)
		if err != nil {
			t.Fatal(err)
		}
		s := id.String()
		if s <= last || s[0] != '3' || id.Version() != 8 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("%s after %s: version %v, %v", s, last, id.Version(), id.Variant())
		}
		last = s
	}
}
