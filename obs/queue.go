package obs

// Queue is a queue or pool that is bounded: how many are in it, and how many may be.
type Queue struct {
	Name         string
	Length, Most int
}

// QueueOf makes one.
func QueueOf(name string, length, most int) Queue { return Queue{name, length, most} }
