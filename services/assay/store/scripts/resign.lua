#!lua flags=allow-oom
-- Give up the lead of the planners, if it is the caller's. Keys: requests.lua (lead).
-- ARGV: planner
--@include requests.lua

if call('GET', P .. 'lead') == ARGV[1] then
  call('DEL', P .. 'lead')
  tell_planners()
end
