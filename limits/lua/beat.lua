-- One gateway says that it is there. Gateways share limits by their number
-- when Redis cannot be asked.
--
-- KEYS[1]  sorted set of the gateways by the time at which they are taken for gone
-- ARGV[1]  this gateway   ARGV[2]  how long it is believed, microseconds; 0: it leaves
--
-- Gives whole numbers: now, how many gateways there are, and this one's place
-- among them in the order of their names, from 0.
local now = clock()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {now, redis.call('ZCARD', KEYS[1]), 0}
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] / 1000))
local place, all = 0, redis.call('ZRANGE', KEYS[1], 0, -1)
for i = 1, #all do if all[i] < ARGV[1] then place = place + 1 end end
return {now, #all, place}
