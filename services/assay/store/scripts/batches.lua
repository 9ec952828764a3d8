#!lua flags=no-writes
-- The batches that are not complete, earliest deadline first. Keys: requests.lua (open, b).
-- ARGV: batches_max      Returns HGETALL b each

local found = {}
for i, uid in ipairs(redis.call('ZRANGE', KEYS[1] .. 'open', 0, tonumber(ARGV[1]) - 1)) do
  found[i] = redis.call('HGETALL', KEYS[1] .. 'b:' .. uid)
end
return found
