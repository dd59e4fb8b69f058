package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
)

// Triggers of one table, time and event fire in the order of their Seq. FOLLOWS and PRECEDES of a
// new one choose that, and are not kept: what they name may be dropped later.

var (
	triggerFires = regexp.MustCompile(`(?is)\b(before|after)\s+(insert|update|delete)\s+on\b`)
	triggerOrder = regexp.MustCompile("(?is)\\bfor\\s+each\\s+row\\s+((follows|precedes)\\s+" +
		"(?:[`\"]([^`\"]+)[`\"]|([\\w$\\x{80}-\\x{10ffff}]+))\\s*)")
)

// firesAt is when a trigger fires: "before insert".
func firesAt(stmt string) string {
	m := triggerFires.FindStringSubmatch(stmt)
	if m == nil {
		return ""
	}
	return strings.ToLower(m[1] + " " + m[2])
}

// orderAt is where FOLLOWS or PRECEDES begins and ends in the definition of a trigger, and what it
// says; at is nil if there is neither.
func orderAt(stmt string) (at []int, follows bool, name string) {
	table := TriggerTableAt(stmt)
	if table == nil {
		return nil, false, ""
	}
	from := table[1]
	m := triggerOrder.FindStringSubmatchIndex(stmt[from:])
	if m == nil {
		return nil, false, ""
	}
	part := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return stmt[from+m[2*i] : from+m[2*i+1]]
	}
	return []int{from + m[2], from + m[3]}, strings.EqualFold(part(2), "follows"), part(3) + part(4)
}

// PlaceTrigger gives a new trigger the place among those of its table that FOLLOWS or PRECEDES asks
// for, and takes that out of its text. Errors: 3011 if there is no such trigger.
func (o *ObjectDesc) PlaceTrigger(look func() (*Database, error)) error {
	text := o.Trigger.CreateStatement
	at, follows, name := orderAt(text)
	if at == nil {
		return nil
	}
	d, err := look()
	if err != nil {
		return err
	}
	table, fires, older := TriggerTable(text), firesAt(text), false
	var all []*ObjectDesc // those beside it, in their order
	for _, x := range d.ObjectsInOrder(IxTrigger) {
		if s := x.Trigger.CreateStatement; SameName(TriggerTable(s), table) && firesAt(s) == fires {
			all = append(all, x)
			own, _, _ := orderAt(s)
			older = older || own != nil
		}
	}
	i := slices.IndexFunc(all, func(x *ObjectDesc) bool { return strings.EqualFold(x.Name, name) })
	if i < 0 {
		return mysql.NewSQLError(3011, "HY000", "Referenced trigger '%s' for the given action time and event type does not exist.", name)
	}
	if follows {
		i++
	}
	from, to := uint64(0), o.Seq
	if i > 0 {
		from = all[i-1].Seq
	}
	if i < len(all) {
		to = all[i].Seq
	}
	if i < len(all) && to-from < 2 || older {
		// there is no number between them, or the order of the others is in their texts, too
		keyword := strings.Fields(text[at[0]:at[1]])[0]
		o.Trigger.CreateStatement = text[:at[0]] + keyword + " `" + all[slices.IndexFunc(all, func(x *ObjectDesc) bool {
			return strings.EqualFold(x.Name, name)
		})].Name + "` " + text[at[1]:]
		return nil
	}
	if i < len(all) {
		o.Seq = from + (to-from)/2
	}
	o.Trigger.CreateStatement = text[:at[0]] + text[at[1]:]
	return nil
}
