#!lua
-- Register a task. Keys: requests.lua.
-- ARGV: tenant task record first_stage gathers tasks_max kept_ms replaced
--   gathers: the stage that judges whole groups, if one does
--   replaced: a record that this one takes the place of, or ''
-- Returns {'THERE' | 'NEW' | 'CONFLICT' | 'SATURATED'}
--@include requests.lua
--@include task_use.lua
--@include new_tasks.lua

local tenant, task, record, first, gathers, tasks_max, kept_ms, replaced = unpack(ARGV)
local name = tenant .. ':' .. task
local facts = call('HMGET', P .. 't:' .. name, 'kept', 'until', 'refreshed', 'rec')
local there = facts[4]
if there and there ~= record and there ~= replaced then return { 'CONFLICT' } end
if not there then
  if not has_room_for_task(tenant, tasks_max) then return { 'SATURATED' } end
  store_task(tenant, task, record, first, gathers, kept_ms)
  facts = { kept_ms }
elseif there ~= record then
  keep_stages(P .. 't:' .. name, record, first, gathers)
end
use_task(name, 0, facts)
return { there and 'THERE' or 'NEW' }
