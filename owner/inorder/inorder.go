// Package inorder does numbered steps one after the other, several of which are under way at once.
package inorder

// Run starts the steps from first to last, in their order, and waits for them. At most so many are
// under way. It starts the next ones when half of these are done, so that they begin together. When
// one fails it starts no more, and returns that error once none is under way.
func Run[T any](first, last uint32, most int, start func(uint32) (T, error), wait func(T) error) (err error) {
	var under []T
	for next := first; ; {
		if len(under) <= most/2 {
			for err == nil && next <= last && len(under) < most {
				var step T
				if step, err = start(next); err == nil {
					under, next = append(under, step), next+1
				}
			}
		}
		if len(under) == 0 {
			return err
		}
		if failed := wait(under[0]); err == nil {
			err = failed
		}
		under = under[1:]
	}
}
