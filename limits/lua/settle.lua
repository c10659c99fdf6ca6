-- Ends one request: gives its slot back and corrects what it was charged. The
-- lease is the token by which this happens once: without it nothing is done.
--
-- KEYS[1]  hash of the windows   KEYS[2]  sorted set of the live requests
-- ARGV[1]  the request's id
-- ARGV[2]  how long the windows are kept without use, milliseconds
-- ARGV[3]  onwards, per window: name, width, the bucket that was charged, and
--          the difference
-- Less is taken out of the bucket that was charged, if it still counts. More
-- goes into the newest bucket: put into the old one it would be forgiven as
-- soon as that one leaves.
--
-- Gives one whole number: 1, or 0 if there was no lease.
local now = clock()
local held = redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
if held == 0 then return {0} end

for a = 3, #ARGV, 4 do
  local diff = tonumber(ARGV[a + 3])
  if diff ~= 0 then
    local bucket = tonumber(ARGV[a + 2])
    if diff > 0 then bucket = math.huge end
    change(KEYS[1], ARGV[a], math.floor(now / ARGV[a + 1]), bucket, diff, ARGV[2])
  end
end
return {1}
