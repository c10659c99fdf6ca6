-- Keeps requests alive, and brings in what a gateway let in by itself while
-- Redis could not be asked.
--
-- KEYS[1]  hash of the windows   KEYS[2]  sorted set of the live requests
-- ARGV[1]  deadline as in admit.lua
-- ARGV[2]  lease, microseconds
-- ARGV[3]  how long the windows are kept without use, milliseconds
-- ARGV[4]  how many charges follow
-- ARGV[5]  onwards, per charge: window's name, width, bucket, amount; then the
--          ids of requests that still run
--
-- Gives whole numbers: 0 or 6 as in admit.lua, and now.
local now = clock()
local deadline = tonumber(ARGV[1])
if deadline > 0 and now > deadline then return {6, now} end

local ids = 5 + ARGV[4] * 4
for a = 5, ids - 1, 4 do
  change(KEYS[1], ARGV[a], math.floor(now / ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[3])
end
if ids <= #ARGV then
  local lease_end = string.format('%.0f', now + ARGV[2])
  for a = ids, #ARGV do redis.call('ZADD', KEYS[2], lease_end, ARGV[a]) end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[2], math.ceil(ARGV[2] / 1000) + 1000)
end
return {0, now}
