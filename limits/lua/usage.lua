-- Adds to the usage record of one owner, once: a gateway numbers what it
-- sends, and sends it again under the same number when it got no answer.
--
-- KEYS[1]  number of the last addition from this gateway
-- KEYS[2]  onwards: one hash per hour
-- ARGV[1]  this addition's number   ARGV[2]  seconds for which hours are kept
-- ARGV[3]  onwards: which of KEYS, field, amount
--
-- Gives one whole number: 1, or 0 if it had been added before.
if (tonumber(redis.call('GET', KEYS[1])) or 0) >= tonumber(ARGV[1]) then return {0} end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
for a = 3, #ARGV, 3 do redis.call('HINCRBY', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 2]) end
for i = 2, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[2]) end
return {1}
