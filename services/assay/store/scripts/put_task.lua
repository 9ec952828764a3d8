#!lua
-- Register a task. Keys: requests.lua.
-- ARGV: tenant task record first_stage tasks_max kept_ms
-- Returns {'THERE' | 'NEW' | 'CONFLICT' | 'SATURATED'}
--@include requests.lua
--@include task_use.lua

local name = ARGV[1] .. ':' .. ARGV[2]
local key, own = P .. 't:' .. name, P .. 'tt:' .. ARGV[1]
local facts = call('HMGET', key, 'kept', 'until', 'refreshed', 'rec')
local there = facts[4]
if there and there ~= ARGV[3] then return { 'CONFLICT' } end
if not there then
  call('ZREMRANGEBYSCORE', own, '-inf', NOW_MS)
  if call('ZCARD', own) >= tonumber(ARGV[5]) then return { 'SATURATED' } end
  call('HSET', key, 'rec', ARGV[3], 'first', ARGV[4], 'n', call('INCR', P .. 'tasks'),
    'kept', ARGV[6])
  facts = { ARGV[6] }
end
use_task(name, 0, facts)
return { there and 'THERE' or 'NEW' }
