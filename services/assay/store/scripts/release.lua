#!lua flags=allow-oom
-- Put requests that `submit` held back into their queue. Keys: requests.lua.
-- ARGV: tenant batch requests_max      Returns how many are still held back
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua

local uid = ARGV[1] .. ':' .. ARGV[2]
release(uid, tonumber(ARGV[3]))
write_touched()
return call('ZCARD', P .. 'held:' .. uid)
