package infile

import "github.com/godwitdb/godwit/sql/bind"

// Counter is the status variable that counts a statement, as in MySQL. load is nil for all but LOAD
// DATA.
func Counter(load *Load, c *bind.Change) string {
	switch {
	case load != nil:
		return "Com_load"
	case c.Kind == bind.Insert:
		name := "Com_insert"
		if c.Insert.Replace {
			name = "Com_replace"
		}
		if !c.Insert.Values {
			name += "_select"
		}
		return name
	}
	name := "Com_update"
	if c.Kind == bind.Delete {
		name = "Com_delete"
	}
	if c.Joined {
		name += "_multi"
	}
	return name
}
