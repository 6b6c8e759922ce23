package remote

import "sync"

// queue runs tasks, at most copiesInFlight at a time, the newest first: a tree is gone
// through depth first, so that few of its directories are open at a time. Tasks may add
// tasks.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []func()
	running int
	stopped bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// add adds a task.
func (q *queue) add(task func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.waiting = append(q.waiting, task)
	q.changed.Signal()
}

// stop drops the tasks that wait, and those that come.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.stopped = nil, true
}

// run runs the tasks and those that they add, and returns when there are none left.
func (q *queue) run() {
	var workers sync.WaitGroup
	for range copiesInFlight {
		workers.Go(func() {
			for task := q.next(); task != nil; task = q.next() {
				task()
				q.ended()
			}
		})
	}
	workers.Wait()
}

// next waits for a task; nil: there will be none.
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

// folder is a directory that is being copied. When everything in it is copied, finish
// is called: only then may its permissions forbid writing, and its time be set.
type folder struct {
	queue  *queue
	above  *folder // nil: the top
	finish func()

	mu   sync.Mutex
	open int // tasks in it, and its own
}

// newFolder returns a folder with one task, the one that lists it.
func newFolder(q *queue, above *folder, finish func()) *folder {
	f := &folder{queue: q, above: above, finish: finish, open: 1}
	if above != nil {
		above.mu.Lock()
		defer above.mu.Unlock()
		above.open++
	}
	return f
}

// add adds a task for something in the folder.
func (f *folder) add(task func()) {
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	f.queue.add(func() {
		defer f.done()
		task()
	})
}

// done ends a task of the folder.
func (f *folder) done() {
	f.mu.Lock()
	f.open--
	last := f.open == 0
	f.mu.Unlock()
	if !last {
		return
	}
	f.finish()
	if f.above != nil {
		f.above.done()
	}
}
