package balancer

import (
	"sync"
	"sync/atomic"
	"time"
)

// The retry budget, in twentieths of a retry. With what may be saved, a pool
// that dies at 200 requests a second gets 1.2 attempts a request over its first
// ten seconds, and fewer later.
const (
	budgetRetry = 20   // the price of one
	budgetShare = 3    // what a request pays in: fifteen retries for a hundred requests
	budgetMost  = 2000 // saved at most: a replica with 100 requests may die at once
	budgetDebt  = -200 // owed at most
	budgetFloor = 3    // retries in any second that are allowed on credit
)

// budget bounds the retries of a pool to 15 % of its requests, so that a
// dead pool is not stormed; a pool with few requests may retry some on credit.
type budget struct {
	balance atomic.Int64

	mu      sync.Mutex // taken by retries only
	second  int64      // the one that retries counts in
	retries int
}

// earn pays in for a new request. Racing requests may pass the upper bound by
// a little, which does no harm.
func (b *budget) earn() {
	if b.balance.Load() < budgetMost {
		b.balance.Add(budgetShare)
	}
}

// spend takes one retry out, if there is one.
func (b *budget) spend(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := now / int64(time.Second); s != b.second {
		b.second, b.retries = s, 0
	}
	if b.balance.Load() < budgetRetry && b.retries >= budgetFloor {
		return false
	}
	b.retries++
	if b.balance.Add(-budgetRetry) < budgetDebt {
		b.balance.Store(budgetDebt)
	}
	return true
}
