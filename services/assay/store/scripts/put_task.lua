#!lua
-- Register a task. Keys: requests.lua.
-- ARGV: tenant task record first_stage      Returns {'THERE' | 'NEW' | 'CONFLICT'}
--@include requests.lua

local name = ARGV[1] .. ':' .. ARGV[2]
local key = P .. 't:' .. name
local there = call('HGET', key, 'rec')
if there and there ~= ARGV[3] then return { 'CONFLICT' } end
if not there then
  call('HSET', key, 'rec', ARGV[3], 'first', ARGV[4], 'n', call('INCR', P .. 'tasks'))
end
use_task(name)
return { there and 'THERE' or 'NEW' }
