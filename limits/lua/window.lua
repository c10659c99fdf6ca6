-- What every script of this package starts with: the clock, and one sliding
-- window. window.go is the same arithmetic in Go and says why it is so.
--
-- A window lies in the hash of its owner and plan in up to 23 fields, name
-- being "r60000000:" for requests or "t60000000:" for tokens over 60,000,000 us:
--   <name>e      epoch: the number of the newest bucket, that is its start
--                divided by the width of a bucket
--   <name>s      sum of all buckets that count
--   <name>0..20  the buckets, bucket b in slot b % 21
-- A slot is written only by its bucket and removed when the bucket leaves.
local BUCKETS = 20

-- Microseconds of Redis's own clock: exact in a Lua number until the year 2255.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The three fields of a window that a charge at bucket k needs.
local function fields(into, name, k)
  local n = #into
  into[n + 1], into[n + 2], into[n + 3] = name .. 'e', name .. 's', name .. k % (BUCKETS + 1)
end

-- Moves a window on to bucket k. Takes the three fields as they were read and
-- gives the newest bucket (a clock that stepped back a little does not move
-- it), the sum, what is in the newest bucket, and whether the window moved.
-- The names of slots that no longer count are added to drop. Writes nothing.
local function roll(hash, name, k, e, s, b, drop)
  e, s, b = tonumber(e), tonumber(s) or 0, tonumber(b) or 0
  if e == k then return k, s, b, false end
  if not e then return k, 0, 0, true end
  if e > k and e - k <= BUCKETS then
    return e, s, tonumber(redis.call('HGET', hash, name .. e % (BUCKETS + 1))) or 0, false
  end
  local first = e + 1
  if e > k or k - e > BUCKETS then first = k - BUCKETS end
  local slots = {}
  for i = first, k do slots[#slots + 1] = name .. i % (BUCKETS + 1) end
  if #slots > BUCKETS then
    s = 0
  else
    for _, gone in ipairs(redis.call('HMGET', hash, unpack(slots))) do
      if gone then s = s - gone end
    end
  end
  for i = 1, #slots do drop[#drop + 1] = slots[i] end
  return k, s, 0, true
end

-- Microseconds from now until a window that is at bucket k with this sum lets
-- cost in, if nothing else happens. The slots in gone are out already.
local function wait(hash, name, width, limit, cost, k, s, now, gone)
  local over = s + cost - limit
  local stale, slots = {}, {}
  for i = 1, #gone do stale[gone[i]] = true end
  for i = k - BUCKETS, k do slots[#slots + 1] = name .. i % (BUCKETS + 1) end
  local held = redis.call('HMGET', hash, unpack(slots))
  for i = 1, #slots do
    if held[i] and not stale[slots[i]] then over = over - held[i] end
    if over <= 0 then return (k + i) * width - now end
  end
  return (k + BUCKETS + 1) * width - now
end

-- Adds diff, which may be negative, to a bucket of a window, no later one than
-- k and no more out of it than is in it. A bucket that has left is let be.
local function change(hash, name, k, bucket, diff, ttl)
  local read = redis.call('HMGET', hash, name .. 'e', name .. 's', name .. k % (BUCKETS + 1))
  local drop = {}
  local newest, s, b, moved = roll(hash, name, k, read[1], read[2], read[3], drop)
  bucket = math.min(bucket, newest)
  if bucket < newest - BUCKETS then return end
  local slot = name .. bucket % (BUCKETS + 1)
  if #drop > 0 then redis.call('HDEL', hash, unpack(drop)) end
  if bucket ~= newest then b = tonumber(redis.call('HGET', hash, slot)) or 0 end
  if diff < -b then diff = -b end
  redis.call('HSET', hash, name .. 'e', newest, name .. 's', s + diff, slot, b + diff)
  if moved then redis.call('PEXPIRE', hash, ttl) end
end
