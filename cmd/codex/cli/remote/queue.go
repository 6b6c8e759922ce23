package remote

import "sync"

// queue runs tasks, copiesInFlight at a time. Tasks may add tasks. The newest task runs first: a
// tree is walked depth first, so that few names wait.
type queue struct {
	failed func() error // if it returns an error, waiting tasks are dropped

	mu      sync.Mutex
	changed *sync.Cond
	waiting []func()
	running int
}

func newQueue(failed func() error) *queue {
	q := &queue{failed: failed}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// add adds a task.
func (q *queue) add(task func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, task)
	q.changed.Signal()
}

// run runs the tasks and the tasks that they add. It returns when all have ended.
func (q *queue) run() {
	var workers sync.WaitGroup
	for range copiesInFlight {
		workers.Go(func() {
			for task := q.next(); task != nil; task = q.next() {
				if q.failed() == nil {
					task()
				}
				q.ended()
			}
		})
	}
	workers.Wait()
}

// next waits for a task, and returns nil when all have ended.
func (q *queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.running == 0 {
			q.changed.Broadcast()
			return nil
		}
		q.changed.Wait()
	}
	last := len(q.waiting) - 1
	task := q.waiting[last]
	q.waiting[last] = nil
	q.waiting = q.waiting[:last]
	q.running++
	return task
}

func (q *queue) ended() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running--; q.running == 0 && len(q.waiting) == 0 {
		q.changed.Broadcast()
	}
}
