package simulation

import "iter"

// process is a thread of an operator: a coroutine that the world resumes when its time has come.
type process struct {
	w     *world
	op    *operator
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	over  bool
	// parent is resumed when this one is over.
	parent   *process
	children int
}

// killed unwinds a process whose operator died.
type killed struct{}

// spawn starts a process of an operator.
func (w *world) spawn(op *operator, parent *process, run func(*process)) {
	op.spawn(0, parent, run)
}

// spawn starts a process in a number of milliseconds.
func (op *operator) spawn(ms int64, parent *process, run func(*process)) {
	w := op.w
	p := &process{w: w, op: op, parent: parent}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer p.finish()
		run(p)
	})
	op.processes = append(op.processes, p)
	if parent != nil {
		parent.children++
	}
	w.after(ms, p.resume)
}

// finish ends a process, however it ended.
func (p *process) finish() {
	p.over = true
	if r := recover(); r != nil {
		if _, ok := r.(killed); !ok {
			panic(r)
		}
		return
	}
	if p.parent != nil {
		if p.parent.children--; p.parent.children == 0 {
			p.w.after(0, p.parent.resume)
		}
	}
}

// resume lets a process run until it waits for something. One of a frozen operator waits for the thaw.
func (p *process) resume() {
	switch {
	case p.over:
	case p.op.dead:
		p.stop()
	case p.op.frozen:
		p.op.parked = append(p.op.parked, p)
	default:
		p.next()
	}
}

// pause gives the turn back until somebody resumes the process.
func (p *process) pause() {
	if !p.yield(struct{}{}) {
		panic(killed{})
	}
}

// sleep lets time pass.
func (p *process) sleep(ms int64) {
	p.w.after(ms, p.resume)
	p.pause()
}

// join waits for the children.
func (p *process) join() {
	for p.children > 0 {
		p.pause()
	}
}
