package advice

import (
	"fmt"
	"slices"
	"strings"
)

// leastUses is how often a region has to use a row before it moves there ([home.Params]: min_heat).
const leastUses = 3

// leastRows and leastNamed are how many rows of a table have to be known, and which share of the
// statements on it has to name rows, before it is said where they would live.
const (
	leastRows  = 10
	leastNamed = 0.8
)

// RowHomes is where the rows of a table would live that each region reads, and writes, if it were
// BY ROW: it is for [Table.Rows]. reads and writes are how often each region uses each row of a
// sample, made the region that has inserted it (-1: none of these), named the share of statements
// that name rows. A row lives where it was made, or else at now, until a region uses it often
// enough, and more than others do. Nil: not enough is known.
func RowHomes(reads, writes [][]float64, made []int, named float64, now int) *RowUses {
	if len(made) < leastRows || named < leastNamed {
		return nil
	}
	out := &RowUses{}
	regions := len(reads[0])
	for k := range out {
		for range regions {
			out[k] = append(out[k], make([]float64, regions))
		}
	}
	for i, h := range made {
		if h < 0 {
			h = now
		}
		most := h
		for g := range regions {
			if reads[i][g]+writes[i][g] > reads[i][most]+writes[i][most] {
				most = g
			}
		}
		if reads[i][most]+writes[i][most] >= leastUses {
			h = most
		}
		for g := range regions {
			out[Read][g][h] += reads[i][g]
			out[Write][g][h] += writes[i][g]
		}
	}
	return out
}

// RowUses is where rows would live, by what is done with them ([Read], [Write]), who does it, and
// the home: of any scale.
type RowUses [2][][]float64

// of is what a region does with rows; nil: nothing is known.
func (r *RowUses) of(k Kind, g int) []float64 {
	if k = min(k, Write); r == nil || g >= len(r[k]) || slices.Max(r[k][g]) == 0 {
		return nil
	}
	return r[k][g]
}

// couldBeByRow reports whether it is known what BY ROW would do to a table. Changes that name no
// rows would lock what all regions have, for how long is not known.
func (t *Table) couldBeByRow(uses []*Use) bool {
	if t.Locality == ByRow || t.Rows == nil {
		return false
	}
	return !slices.ContainsFunc(uses, func(u *Use) bool {
		return u.Whole && (u.Kind != Read || u.Locks) || u.Kind != Insert && !u.Whole && t.Rows.of(u.does(), u.Region) == nil
	})
}

// mine is the share of uses that would meet rows of their own region, if the table were BY ROW.
func (t *Table) mine() float64 {
	own, all := 0.0, 0.0
	for _, kind := range t.Rows {
		for g, by := range kind {
			for h, n := range by {
				if all += n; g == h {
					own += n
				}
			}
		}
	}
	return own / max(1, all)
}

// does is what a use does with the rows that it names: reads that lock are writes.
func (u *Use) does() Kind {
	if u.Kind == Read && !u.Locks {
		return Read
	}
	return Write
}

// copied are statements that make a MULTI MASTER table one BY ROW: it cannot be altered to that, as
// all of its rows would be written again while other regions write them.
func (f *Facts) copied(t *Table) string {
	as := func(suffix string) string {
		if name, quoted := strings.CutSuffix(t.Quote, "`"); quoted {
			return name + suffix + "`"
		}
		return t.Quote + suffix
	}
	made, old := as("__by_row"), as("__multi_master")
	return fmt.Sprintf("CREATE TABLE %s LIKE %s; ALTER TABLE %s SET LOCALITY REGIONAL BY ROW; INSERT INTO %s SELECT * FROM %s; RENAME TABLE %s TO %s, %s TO %s",
		made, t.Quote, made, made, t.Quote, t.Quote, old, made, t.Quote)
}
