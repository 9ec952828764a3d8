#!lua flags=allow-oom
-- Seal or cancel a batch, or continue with it; call again with CONTINUE while `more`. Keys:
-- requests.lua.
-- ARGV: tenant batch SEAL|CANCEL|CONTINUE steps_max
-- Returns {'DONE', HGETALL b, ended, more} or {'NOT_FOUND'}
--@include requests.lua
--@include shares.lua
--@include worker_time.lua
--@include task_use.lua
--@include gathering.lua
--@include letters.lua
--@include ends.lua
--@include settling.lua

local uid = ARGV[1] .. ':' .. ARGV[2]
local key = P .. 'b:' .. uid
local action, steps_max = ARGV[3], tonumber(ARGV[4])
local state = call('HGET', key, 'state')
if not state then return { 'NOT_FOUND' } end
local ended, more = 0, 0
if state == 'OPEN' or state == 'SEALED' then
  if action ~= 'CONTINUE' then call('HSET', key, 'state', 'SEALED') end
  if action == 'CANCEL' then call('HSET', key, 'closing', 'CANCELLED') end
  ended = settle(uid, steps_max)
  write_touched()
  settle_groups(uid, steps_max)
  more = call('ZSCORE', P .. 'closing', uid) and 1 or 0
end
return { 'DONE', call('HGETALL', key), ended, more }
